// Package handler makes handlers and lookups out of configuration: a process
// per item ([Exec]), one long-lived process ([Stream]), an HTTP request per
// item ([HTTP]); and, to ask a destination what it has applied, [LookupExec]
// and [LookupHTTP].
//
// Each constructor answers with a [dibs.Handle] or a [dibs.LookupFunc] that is
// safe for concurrent use, or with every fault of its configuration at once.
//
// The package must not know how items are claimed, leased or settled, or what
// follows from a verdict: it turns one item into one attempt, and what became
// of the attempt into the typed errors of package dibs. It keeps to one rule:
// it says "not applied" only when nothing can have reached the destination or
// the destination said so; whatever else goes wrong is unknown.
//
// # Items on the wire
//
// A process receives the item as one JSON object on its standard input, an HTTP
// destination as the body unless a body is configured:
//
//	{"job": "crm-sync", "run": "run_…", "work_id": "crm-sync/sync-note/42/7",
//	 "key": "42", "key_parts": ["42"], "fence": 3, "attempt": 1, "cycle": 7,
//	 "origin": "schedule", "slot": "2026-03-01T08:00:00Z",
//	 "window_start": "…", "window_end": "…", "covered_slots": ["…"],
//	 "last_success": "…", "deadline": "…", "concurrent": false,
//	 "previous": "lost:run_…", "payload": {"name": "Ada", "external_ref": "a-1"}}
//
// What is not known is left out. Times are RFC 3339 in UTC. Unknown fields are
// to be ignored: more may come.
//
// # Receipts
//
// A receipt is a JSON object with "id", a string or number, and "evidence", an
// object of named values worth keeping. An ID that is empty, longer than 1,000
// bytes, not UTF-8 or has control characters is not one. When a receipt was
// expected and could not be read, its evidence says why under "problem".
//
// # Secrets
//
// Error texts carry no header value, and of a URL only scheme and host. Text
// quoted from a destination or a process is cut, stripped of control
// characters, and configured secrets in it are replaced.
package handler
