package config

import (
	"strings"

	"github.com/dibs-run/dibs"
)

// effects checks what says which action an item is, and how the destination is
// asked about it.
func (c *checker) effects(j *Job) {
	if l := j.Lookup; l != nil {
		c.exactlyOne("lookup", "write one of them", "exec", "http")
		if len(l.Exec) > 0 && l.Exec[0] == "" {
			c.fault("the command is empty", "write exec: [COMMAND, ARGUMENT]", "lookup", "exec")
		}
		if l.HTTP != nil {
			c.request("lookup", l.HTTP.Method, l.HTTP.URL, l.HTTP.Headers)
		}
	}
	if j.OnUncertain == dibs.Lookup && !c.has("lookup") {
		c.fault("lookup needs to know how to ask the destination", "add lookup: {http: {url: …, matches: /results, id: /id}} or lookup: {exec: [COMMAND]}, or choose hold", "on_uncertain")
	}
	if (j.OnUncertain == dibs.Lookup || j.OnUncertain == dibs.Hold) && j.Idempotency != nil {
		c.fault("bounds replay, which the job does not choose", "remove it, or choose on_uncertain: replay", "idempotency")
	}
	if (j.OnUncertain == dibs.Lookup || j.OnUncertain == dibs.Hold) && j.Source == nil && j.node.get("on_uncertain") != nil && c.has("handler") {
		c.fault(string(j.OnUncertain)+" needs a source: a job without one is tried again as a whole", "choose replay", "on_uncertain")
	}
	c.identity(j)
}

// identity parses the template, and refuses what the table cannot give.
func (c *checker) identity(j *Job) {
	if j.Identity == "" {
		return
	}
	if j.Source == nil {
		c.fault("a job without a source is its slot or its trigger", "remove it", "identity")
		return
	}
	table, err := j.table()
	if err != nil {
		return // reported where it stands
	}
	id, err := dibs.IdentityOf(&dibs.Job{Identity: j.Identity, Source: table}, table.TwoColumn)
	switch {
	case err != nil:
		c.fault(err.Error(), "the fields are {job}, {operation}, {key}, {cycle}, {slot}, {trigger} and the selected columns", "identity")
	case !id.Scoped():
		c.fault("begins with a value of the row: two jobs could mean the same action by it", "begin with {job}, or with a fixed text of your own", "identity")
	case table.TwoColumn && id.Has("cycle"):
		c.fault("a two-column table has no cycle", "use a version column, {slot} or {trigger}", "identity")
	}
}

// request checks the parts that every HTTP request has.
func (c *checker) request(block, method, url string, headers Headers) {
	if strings.ContainsFunc(method, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		c.fault("is not a method", "write it in capitals, such as POST", block, "http", "method")
	}
	if url != "" && !webAddress(url) {
		c.fault("is not an http or https address", "write https://HOST/PATH", block, "http", "url")
	}
	for name, value := range headers {
		switch {
		case !headerName(name):
			c.fault(quote(name)+" is not a header name", "use letters, digits and -", block, "http", "headers", name)
		case strings.ContainsAny(value, "\r\n\x00"):
			c.fault("a header value must be one line", "remove the line breaks; a secret's file may end in more than one", block, "http", "headers", name)
		}
	}
}
