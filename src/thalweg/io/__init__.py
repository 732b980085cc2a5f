"""Sources and sinks: files in, answers out."""
