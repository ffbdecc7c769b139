package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

// identity names the server and the database on it: a Galera cluster by the
// identifier of its state, which all nodes share; MySQL by server_uuid; MariaDB,
// which has no such thing, by where it runs and keeps its data.
func identity(ctx context.Context, q sqlstore.Querier, meta map[string]string) (string, error) {
	status, err := named(ctx, q, "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'")
	if err != nil {
		return "", err
	}
	if cluster := status["wsrep_cluster_state_uuid"]; cluster != "" {
		return "galera/" + cluster + "/" + meta["here"], nil
	}
	v, err := named(ctx, q, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'hostname', 'port', 'datadir')")
	if err != nil {
		return "", err
	}
	if v["server_uuid"] != "" {
		return "mysql/" + v["server_uuid"] + "/" + meta["here"], nil
	}
	return fmt.Sprintf("mariadb/%s:%s%s/%s", v["hostname"], v["port"], v["datadir"], meta["here"]), nil
}

// named reads rows of a name and a value.
func named(ctx context.Context, q sqlstore.Querier, show string) (map[string]string, error) {
	rows, err := q.QueryContext(ctx, show)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its errors are those of Err
	values := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		values[name] = value
	}
	return values, rows.Err()
}

// Check verifies that the pool counts the rows that an UPDATE found; without
// that every guarded write that happens to change nothing looks refused. It
// needs our tables and changes nothing.
func Check(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing is kept
	for _, set := range []string{"1", "1"} {
		res, err := tx.ExecContext(ctx, "UPDATE dibs_meta SET value = "+set+" WHERE name = 'oldest_compatible'")
		if err != nil {
			return fmt.Errorf("check the connection: %w", err)
		}
		found, err := res.RowsAffected()
		if err != nil {
			return fmt.Errorf("check the connection: %w", err)
		}
		if found == 0 {
			return &dibs.ConfigError{
				Subject: "MySQL connection", Field: "clientFoundRows",
				Problem: "an UPDATE answers with the rows that it changed, not with those that it found",
				Fix:     "open the database with clientFoundRows=true",
			}
		}
	}
	return nil
}
