SELECT CONCAT('innodb_flush_log_at_trx_commit is ', @@GLOBAL.innodb_flush_log_at_trx_commit, ', not 1: the last commits may be lost when the server stops; set it to 1')
FROM DUAL WHERE @@GLOBAL.innodb_flush_log_at_trx_commit <> 1
