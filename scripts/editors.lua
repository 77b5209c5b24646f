-- What a person does with a plugin, without a screen: run by scripts/editors, once for each plugin.

local work = vim.env.WORK
if vim.env.NVIM_LIB then
  vim.opt.rtp:append(vim.env.NVIM_LIB)
end
vim.o.swapfile = false
vim.cmd.cd(work)

local function plugins(names)
  for _, name in ipairs(names) do
    vim.opt.rtp:append(vim.env.PLUGINS .. "/" .. name)
  end
end

local function tell(line)
  io.stdout:write("\n" .. line .. "\n")
end

local function text(name)
  local file = io.open(work .. "/" .. name, "rb")
  if not file then
    return nil
  end
  local all = file:read("*a")
  file:close()
  return all
end

-- Waits until it is true; says whether it became so.
local function check(what, fits)
  local fine = vim.wait(20000, fits, 50)
  tell((fine and "ok " or "FAILED ") .. what .. (fine and "" or ": " .. vim.inspect({ text("main.rs"), text("notes.md"), text("made.txt") })))
end

local function is(name, expect)
  return function()
    return text(name) == expect
  end
end

local function edit(path, old, new)
  return "call edit " .. vim.json.encode({ path = path, edits = { { old = old, new = new } } })
end

local function write(path, content)
  return "call write " .. vim.json.encode({ path = path, content = content })
end

-- The agent with a model that does what the prompt says.
local COMMAND = { vim.env.TIELINE, "agent", "--script", "puppet" }

local function codecompanion()
  plugins({ "plenary.nvim", "codecompanion.nvim" })
  require("codecompanion").setup({
    adapters = {
      acp = {
        tieline = function()
          return require("codecompanion.adapters").extend("opencode", {
            name = "tieline",
            formatted_name = "Tieline",
            commands = { default = COMMAND },
          })
        end,
      },
    },
    interactions = { chat = { adapter = "tieline" } },
  })
  -- The one thing that a person would have to press.
  local asked, answer = 0, "allow_once"
  require("codecompanion.interactions.chat.acp.request_permission").confirm = function(_, request)
    asked = asked + 1
    for _, option in ipairs(request.options) do
      if option.kind == answer then
        return request.respond(option.optionId, false)
      end
    end
  end
  vim.cmd.edit("main.rs")
  local chat = assert(require("codecompanion").chat(), "no chat")
  check("it connects", function()
    local connection = chat.acp_connection
    return connection and connection:is_ready() and connection.session_id ~= nil
  end)
  local done
  chat:add_callback("on_completed", function()
    done = true
  end)
  local function say(words, later)
    done = false
    chat:add_message({ role = "user", content = words })
    chat:submit({ auto_submit = true })
    if later then
      return
    end
    check("a turn: " .. words:sub(1, 40), function()
      return done
    end)
  end
  say(edit("main.rs", "main", "first"))
  check("an open file is edited, with one newline at its end", is("main.rs", "fn first() {}\n"))
  say(edit("main.rs", "first", "second"))
  check("and again", is("main.rs", "fn second() {}\n"))
  say(write("made.txt", "one\n"))
  check("a file is made", is("made.txt", "one\n"))
  -- A cancelled prompt comes again before the next one.
  answer = "nobody"
  local before = asked
  say("run echo once >> once.txt", true)
  check("it asks", function()
    return asked == before + 1
  end)
  chat:stop()
  vim.wait(5000, function()
    return chat.current_request == nil
  end, 50)
  vim.wait(1000)
  answer = "allow_once"
  say(edit("notes.md", "Notes", "Book"))
  check("the next prompt is done", is("notes.md", "# Book\n"))
  check("the cancelled one is not", function()
    return text("once.txt") == nil and asked == before + 2
  end)
end

local function avante()
  plugins({ "plenary.nvim", "nui.nvim", "avante.nvim" })
  vim.o.laststatus = 3
  -- Its parts in Rust make prompts for its own models; agents get none of that.
  package.preload["avante_templates"] = function()
    return { initialize = function() end, render = function() return "" end }
  end
  package.preload["avante_tokenizers"] = function()
    return { from_pretrained = function() end, encode = function() return {}, 0, 0 end }
  end
  local env = {}
  for _, name in ipairs({ "HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME" }) do
    env[name] = vim.env[name]
  end
  require("avante").setup({
    provider = "tieline",
    acp_providers = { tieline = { command = COMMAND[1], args = vim.list_slice(COMMAND, 2), env = env } },
  })
  vim.cmd.edit("main.rs")
  -- It connects when its window opens, and once more for a question that comes before that is done.
  require("avante").open_sidebar({})
  check("it connects", function()
    local sidebar = require("avante").get()
    return sidebar and sidebar.acp_client ~= nil and sidebar.acp_client:is_ready()
  end)
  vim.wait(1000)
  local function say(words, what, fits)
    require("avante.api").ask({ question = words, without_selection = true })
    check(what, fits)
    vim.wait(700)
  end
  say(write("made.txt", "one\n"), "a file is made", is("made.txt", "one\n"))
  say(edit("notes.md", "Notes", "Book"), "the first edit of a file", is("notes.md", "# Book\n"))
  say(edit("main.rs", "main", "first"), "an open file keeps its newline", is("main.rs", "fn first() {}\n"))
  say("call run " .. vim.json.encode({ command = "echo once >> once.txt" }), "a command", is("once.txt", "once\n"))
  say(edit("notes.md", "Book", "Page"), "another prompt", is("notes.md", "# Page\n"))
  check("old prompts are not carried out again", is("once.txt", "once\n"))
end

function Drive(editor)
  local fine, why = xpcall(({ codecompanion = codecompanion, avante = avante })[editor], debug.traceback)
  tell(fine and "DONE" or "FAILED " .. why)
  vim.cmd("qa!")
end
