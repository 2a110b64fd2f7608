"""Part-of-speech tagging: taggers that count, the parts of taggers that learn, and how accurate they are."""
