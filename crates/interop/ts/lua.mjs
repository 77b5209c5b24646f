// Runs a Lua file as Neovim would, with modules that only note what they are given: `node lua.mjs FILE`.
// Prints what each module's `setup` got, with the adapters of CodeCompanion resolved, as JSON.
import { readFileSync } from "node:fs";
import fengari from "fengari";

const { lua, lauxlib, lualib, to_luastring, to_jsstring } = fengari;

// `extend` gives back what it was given, with the name of what it extends.
const MODULES = `
local noted = {}
local function module(name)
  if name == "codecompanion.adapters" then
    return { extend = function(base, own) own.extends = base; return own end }
  end
  return { setup = function(options) noted[name] = options end }
end
function require(name) return module(name) end
return function()
  local companion = noted.codecompanion
  if companion then
    for name, adapter in pairs(companion.adapters.acp) do companion.adapters.acp[name] = adapter() end
  end
  return noted
end
`;

const state = lauxlib.luaL_newstate();
lualib.luaL_openlibs(state);
function run(text) {
  if (lauxlib.luaL_loadstring(state, to_luastring(text)) !== lua.LUA_OK || lua.lua_pcall(state, 0, 1, 0) !== lua.LUA_OK) {
    throw new Error(to_jsstring(lua.lua_tostring(state, -1)));
  }
}

// The value on top of the stack. A table whose first key is 1 is a list.
function value() {
  switch (lua.lua_type(state, -1)) {
    case lua.LUA_TSTRING:
      return to_jsstring(lua.lua_tostring(state, -1));
    case lua.LUA_TNUMBER:
      return lua.lua_tonumber(state, -1);
    case lua.LUA_TBOOLEAN:
      return lua.lua_toboolean(state, -1);
    case lua.LUA_TTABLE: {
      const table = {};
      lua.lua_pushnil(state);
      while (lua.lua_next(state, -2) !== 0) {
        const item = value();
        lua.lua_pop(state, 1);
        table[lua.lua_type(state, -1) === lua.LUA_TNUMBER ? lua.lua_tonumber(state, -1) : to_jsstring(lua.lua_tostring(state, -1))] = item;
      }
      return 1 in table ? Object.values(table) : table;
    }
    default:
      return null;
  }
}

run(MODULES);
run(readFileSync(process.argv[2], "utf8"));
lua.lua_pop(state, 1);
if (lua.lua_pcall(state, 0, 1, 0) !== lua.LUA_OK) throw new Error(to_jsstring(lua.lua_tostring(state, -1)));
console.log(JSON.stringify(value()));
