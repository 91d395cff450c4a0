/* A small Lua interpreter: runs the script its first argument names with the other arguments in `arg`, and
   prints an error with its traceback. */
#include <stdio.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

static int traceback(lua_State *lua) {
    luaL_traceback(lua, lua, lua_tostring(lua, 1), 1);
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "a script is needed\n");
        return 2;
    }
    lua_State *lua = luaL_newstate();
    if (!lua) return 3;
    luaL_openlibs(lua);
    lua_createtable(lua, argc, 0);
    for (int i = 2; i < argc; i++) {
        lua_pushstring(lua, argv[i]);
        lua_rawseti(lua, -2, i - 1);
    }
    lua_setglobal(lua, "arg");
    lua_pushcfunction(lua, traceback);
    int failed = luaL_loadfile(lua, argv[1]) || lua_pcall(lua, 0, 1, 1);
    int status = failed ? 1 : (int)lua_tointeger(lua, -1);
    if (failed) fprintf(stderr, "error: %s\n", lua_tostring(lua, -1));
    lua_close(lua);
    return status;
}
