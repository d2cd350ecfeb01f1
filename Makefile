# Thin names for dev.py, which does the work.

.PHONY: demo test check evidence lint generate coordinates lock broker bench

demo test check evidence lint generate coordinates lock broker bench:
	python3 dev.py $@ $(ARGS)
