package sqlstore

import "github.com/dibs-run/dibs"

// Explained is a statement with arguments of the right kinds.
type Explained struct {
	SQL  string
	Args []any
}

// ClaimStatements are a table's statements by name, for tests of their plans.
func ClaimStatements(of dibs.Claims) map[string]Explained {
	c := of.(*claims)
	binds := c.scopeBinds(dibs.Scope{Key: dibs.Key{"7"}})
	for name, v := range map[string]any{
		"token": "t/1", "lease": int64(60e6), "limit": int64(100), "mark": int64(0), "mark_k0": "500", "until": farFuture,
		"items": `[{"k0":"7","t":"t/1","f":"1"},{"k0":"8","t":"t/1","f":"1"}]`, "same": `{}`, "late": int64(0), "label": "IDLE",
	} {
		binds[name] = v
	}
	out := map[string]Explained{}
	for name, st := range map[string]Statement{
		"claim from the start": c.st.claim, "claim from the mark": c.st.claimMark, "claim plainly": c.st.claimPlain, "claim plainly from the mark": c.st.claimPlainMark, "key": c.st.claimKey, "write": c.st.claimWrite,
		"settle": c.st.settle, "settle_write": c.st.settleWrite, "renew": c.st.renew, "renew_write": c.st.renewWrite,
		"renew_look": c.st.renewLook, "look": c.st.look,
	} {
		if !st.there() {
			continue
		}
		args, err := st.args(binds)
		if err != nil {
			panic(err)
		}
		out[name] = Explained{SQL: st.SQL, Args: args}
	}
	return out
}
