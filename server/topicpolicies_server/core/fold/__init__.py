"""The fold: what each event of a change log does to the head of its policy key. A pure function of the log."""
