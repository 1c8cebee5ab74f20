from openchatml import View as View, view as view
