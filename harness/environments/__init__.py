"""Where nodes run. An environment starts them and offers the capabilities that faults ask for."""
