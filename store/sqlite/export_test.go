package sqlite

// Unfit lets tests name file systems that this machine does not have.
func Unfit(magic uint32) string { return unfit(magic) }
