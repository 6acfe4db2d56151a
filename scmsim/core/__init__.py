"""What every room stands on: the records of both wires, counters, plug-ins, errors, units, text and files."""
