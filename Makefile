# Thin names for dev.py, which does the work.

.PHONY: demo test check evidence lint generate lock release site broker bench

demo test check evidence lint generate lock release site broker bench:
	python3 dev.py $@ $(ARGS)
