"""marksweep compared with what people use today, on the same transcripts, in the same run."""
