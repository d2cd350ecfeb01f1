"""How answers are shown: documents, changes and entries as lines and tables for people, and as JSON for programs."""
