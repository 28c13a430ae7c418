"""marksweep beside what people use today, on the same transcripts, in the same run."""
