SELECT {remaining}
