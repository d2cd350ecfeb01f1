"""The fold: what each event of a change log does to the head of its policy key. A pure function of the log.

- ``keystate``: what is kept of one policy key
- ``operation``: what single events do to a head
- ``inference``: what a broker meant by its document
- ``overlap``: the same of brokers that change documents in place
- ``joining``: heads of keys whose history was not seen from the beginning
- ``fold``: what every event does, out of those above
- ``remembered``: the requests that a key's state remembers, as bytes
- ``leftovers``: what a state keeps for a while, as bytes
- ``recent``: many more requests than travel in events
"""
