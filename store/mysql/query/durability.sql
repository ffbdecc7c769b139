SELECT 'innodb_flush_log_at_trx_commit is not 1: the last commits may be lost when the server stops'
FROM DUAL WHERE @@GLOBAL.innodb_flush_log_at_trx_commit <> 1
