/* SQLite at work: create, fill in one transaction, join, aggregate, roll back, check the whole file. The
   first argument names the database, the second says how many rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite3.h"

static sqlite3 *database;

static int print_row(void *what, int columns, char **values, char **names) {
    (void)what;
    for (int i = 0; i < columns; i++) printf("%s=%s ", names[i], values[i] ? values[i] : "null");
    printf("\n");
    return 0;
}

static void run(const char *sql) {
    char *message = NULL;
    if (sqlite3_exec(database, sql, print_row, NULL, &message) != SQLITE_OK) {
        printf("error: %s\n", message);
        sqlite3_free(message);
    }
}

static void shout(sqlite3_context *context, int count, sqlite3_value **values) {
    (void)count;
    char text[64];
    snprintf(text, sizeof text, "%s!", (const char *)sqlite3_value_text(values[0]));
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void fill(int rows) {
    sqlite3_stmt *insert;
    sqlite3_prepare_v2(database, "insert into item(id, shelf, name, price) values (?, ?, ?, ?)", -1, &insert, NULL);
    for (int i = 0; i < rows; i++) {
        char name[32];
        snprintf(name, sizeof name, "item %d", i * 7919 % rows);
        sqlite3_bind_int(insert, 1, i);
        sqlite3_bind_int(insert, 2, i % 13);
        sqlite3_bind_text(insert, 3, name, -1, SQLITE_TRANSIENT);
        sqlite3_bind_double(insert, 4, i * 0.25);
        if (sqlite3_step(insert) != SQLITE_DONE) printf("insert: %s\n", sqlite3_errmsg(database));
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
}

int main(int argc, char **argv) {
    printf("sqlite %s\n", sqlite3_libversion());
    if (argc > 1 && !strcmp(argv[1], "--version")) return 0;
    if (sqlite3_open(argc > 1 ? argv[1] : ":memory:", &database) != SQLITE_OK) {
        printf("open: %s\n", sqlite3_errmsg(database));
        return 1;
    }
    sqlite3_create_function(database, "shout", 1, SQLITE_UTF8, NULL, shout, NULL, NULL);
    run("create table shelf(id integer primary key, room text)");
    run("create table item(id integer primary key, shelf references shelf(id), name text unique, price real)");
    run("begin");
    for (int i = 0; i < 13; i++) {
        char sql[80];
        snprintf(sql, sizeof sql, "insert into shelf values (%d, 'room %c')", i, 'a' + i % 4);
        run(sql);
    }
    fill(argc > 2 ? atoi(argv[2]) : 2000);
    run("commit");
    run("select room, count(*) as n, sum(price) as total, shout(min(name)) as least from item join shelf on"
        " shelf.id = item.shelf group by room order by room");
    run("begin");
    run("delete from item where id % 2 = 0");
    run("select count(*) as left_inside from item");
    run("rollback");
    run("select count(*) as after_rollback from item");
    run("insert into item(id, name) values (5000, 'item 3')");
    run("with recursive fib(a, b) as (values (0, 1) union all select b, a + b from fib where b < 1000000)"
        " select max(a) as fib, count(*) as steps from fib");
    run("select name from item where name like '%99_' order by price desc limit 5");
    run("pragma integrity_check");
    printf("changes %d\n", sqlite3_total_changes(database));
    int closed = sqlite3_close(database) == SQLITE_OK;
    sqlite3_shutdown();
    return closed ? 11 : 1;
}
