"""Foundation of every other folder: records, counters, plug-ins, errors, units, text and files."""
