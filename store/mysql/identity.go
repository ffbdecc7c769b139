package mysql

import (
	"context"
	"fmt"

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
