"""The promises that hold on every durable log, shown on real server processes: nothing is lost, whoever is killed when."""
