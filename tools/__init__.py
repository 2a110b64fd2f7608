"""Programs for those who work on Chainrule."""
