"""Reading: the heads of a namespace as its log tells them, and the watches that follow their changes."""
