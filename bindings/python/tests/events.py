"""Events as lists, as the reader in Rust prints them."""

from openchatml import Amended, Delta, Diagnostic, End, Opened, Start


def plain(events):
    """Return events as lists, with adjacent deltas joined."""
    out = []
    for event in events:
        if isinstance(event, Delta):
            last = out[-1] if out else None
            joins = not (event.kind or "").startswith("function")
            if joins and last and last[0] == "delta" and last[2] == event.kind:
                last[1] += event.text
            else:
                out.append(["delta", event.text, event.kind])
        elif isinstance(event, Start):
            head = event.head
            out.append([
                "start", head.role, head.name, head.recipient, head.channel, head.content_type,
                head.call_id, head.intent, head.stray, head.visible,
            ])
        elif isinstance(event, End):
            out.append(["end", event.end, event.complete, list(event.byte_span)])
        elif isinstance(event, Amended):
            out.append(["amended", event.end])
        elif isinstance(event, Opened):
            out.append(["opened", event.header and event.header["version"]])
        elif isinstance(event, Diagnostic):
            out.append(["diagnostic", event.code, event.message, list(event.byte_span)])
        else:
            raise AssertionError(event)
    return out
