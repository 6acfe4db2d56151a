"""Foundation of all other packages: records, counters, plug-ins, errors, units, text and files."""
