"""The commands that run a server or a guard, the demo, and the command that shows the options in force."""
