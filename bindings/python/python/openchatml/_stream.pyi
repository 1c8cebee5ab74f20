from openchatml import Stream as Stream
