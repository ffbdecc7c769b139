package server

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// account is the user a server runs as: ourselves, or an unprivileged user when
// we are root, because both servers refuse to run as root.
type account struct {
	switched bool // whether it is another user than ourselves
	uid, gid uint32
	name     string
}

// accountFor chooses the user: ourselves unless we are root, else the wanted
// one, else nobody.
func accountFor(wanted string) (account, error) {
	if os.Geteuid() != 0 {
		return account{name: currentName()}, nil
	}
	for _, name := range []string{wanted, "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("user %s has the id %q: %w", name, found.Uid, err)
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("group of %s has the id %q: %w", name, found.Gid, err)
		}
		return account{switched: true, uid: uint32(uid), gid: uint32(gid), name: name}, nil
	}
	return account{}, fmt.Errorf("neither user %s nor nobody exists, and a database server does not run as root", wanted)
}

func currentName() string {
	if me, err := user.Current(); err == nil {
		return me.Username
	}
	return strconv.Itoa(os.Geteuid())
}

// own gives a file or folder to the account.
func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// writeFile writes a file that only the account can read.
func (a account) writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return a.own(path)
}
