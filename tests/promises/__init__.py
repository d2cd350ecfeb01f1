"""The gate: what the project promises, tested from outside. It knows no part of the server; README.md says which test stands for what."""
