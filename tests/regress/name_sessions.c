/*
 * Preloaded into isolationtester: puts the process id that a connection received into its application_name, so that
 * the server's function that looks for blocked sessions finds them behind a pool, too (tests/src/bin/regress/run.rs).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include <libpq-fe.h>

int
PQbackendPID(const PGconn *conn)
{
    int (*told)(const PGconn *) = (int (*)(const PGconn *)) dlsym(RTLD_NEXT, "PQbackendPID");
    int pid = told(conn);
    char sql[120];

    snprintf(sql, sizeof(sql),
             "SELECT set_config('application_name', '%d/' || current_setting('application_name'), false)", pid);
    PQclear(PQexec((PGconn *) conn, sql));
    return pid;
}
