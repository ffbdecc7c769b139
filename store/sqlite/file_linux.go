package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func fileIdentity(path string) (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return "", fmt.Errorf("statx %s: %w", path, err)
	}
	if st.Mask&unix.STATX_BTIME == 0 {
		return fmt.Sprintf("file/%d", st.Ino), nil
	}
	return fmt.Sprintf("file/%d/%d.%09d", st.Ino, st.Btime.Sec, st.Btime.Nsec), nil
}

// Kinds of file systems, as statfs tells them.
const (
	magicNFS     = 0x6969
	magicCIFS    = 0xff534d42
	magicSMB     = 0x517b
	magicSMB2    = 0xfe534d42
	magicAFS     = 0x5346414f
	magicKAFS    = 0x6b414653
	magicCeph    = 0x00c36400
	magicLustre  = 0x0bd00bd0
	magicGPFS    = 0x47504653
	magicOCFS2   = 0x7461636f
	magicGFS2    = 0x01161970
	magic9P      = 0x01021997
	magicFUSE    = 0x65735546
	magicVirtual = 0x786f4256 // VirtualBox shared folders
	magicOverlay = 0x794c7630
)

// unfitFileSystem says what is wrong with the file system of a folder; empty:
// nothing.
func unfitFileSystem(folder string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return "", fmt.Errorf("statfs %s: %w", folder, err)
	}
	return unfit(uint32(st.Type)), nil
}

func unfit(magic uint32) string {
	const network = "%s is shared over a network or by another kernel: its locks do not exclude other hosts"
	switch magic {
	case magicNFS:
		return fmt.Sprintf(network, "NFS")
	case magicCIFS, magicSMB, magicSMB2:
		return fmt.Sprintf(network, "SMB")
	case magicAFS, magicKAFS, magicCeph, magicLustre, magicGPFS, magicOCFS2, magicGFS2:
		return fmt.Sprintf(network, "this cluster file system")
	case magic9P:
		return fmt.Sprintf(network, "9p")
	case magicFUSE:
		return fmt.Sprintf(network, "FUSE, as far as can be known,")
	case magicVirtual:
		return fmt.Sprintf(network, "a shared folder")
	case magicOverlay:
		return "it is a container's own layer: other containers do not see it, and it is gone when this one is replaced"
	}
	return ""
}
