// smelt completion and smelt man: both are written from the definitions of the commands.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/cat.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/output.h"

namespace smelt::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> flags_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* o) { return o->nonpositional(); });
}

/// "-t --threads", as typed.
std::vector<std::string> spellings(const CLI::Option& o) {
  std::vector<std::string> out;
  for (const std::string& s : o.get_snames()) out.push_back("-" + s);
  for (const std::string& l : o.get_lnames()) out.push_back("--" + l);
  return out;
}

bool takes_value(const CLI::Option& o) { return o.get_type_size() != 0; }
bool takes_file(const CLI::Option& o) { return o.get_type_name() == "FILE"; }
bool takes_folder(const CLI::Option& o) { return o.get_type_name() == "DIR"; }

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// Inside single quotes of a shell.
std::string quoted(const std::string& text) { return replaced(text, "'", "'\\''"); }

std::string bash_script(const CLI::App& app) {
  std::string names, options, values;
  for (const CLI::App* c : commands_of(app)) {
    names += c->get_name() + " ";
    std::string all;
    for (const CLI::Option* o : flags_of(*c)) {
      all += joined(spellings(*o), " ") + " ";
      if (!takes_value(*o)) continue;
      std::string patterns;
      for (const std::string& s : spellings(*o)) patterns += Cat(patterns.empty() ? "" : "|", c->get_name(), ":", s);
      const auto words = choices(*o);
      const std::string reply = !words.empty() ? Cat("COMPREPLY=($(compgen -W '", joined(words, " "), "' -- \"$cur\"))")
                                : takes_file(*o)   ? std::string("COMPREPLY=($(compgen -f -- \"$cur\"))")
                                : takes_folder(*o) ? std::string("COMPREPLY=($(compgen -d -- \"$cur\"))")
                                                   : std::string("COMPREPLY=()");
      values += Cat("    ", patterns, ") ", reply, "; return ;;\n");
    }
    options += Cat("    ", c->get_name(), ") options='", all, "' ;;\n");
  }
  std::string top;
  for (const CLI::Option* o : flags_of(app)) top += joined(spellings(*o), " ") + " ";
  return Cat(
      "# Bash completion of smelt, written by `smelt completion bash`.\n"
      "_smelt() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} options=\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '",
      names, top,
      "' -- \"$cur\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$command:$prev\" in\n",
      values,
      "  esac\n"
      "  case \"$command\" in\n",
      options,
      "  esac\n"
      "  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")); else COMPREPLY=($(compgen -f -- "
      "\"$cur\")); fi\n"
      "}\n"
      "complete -o filenames -F _smelt smelt\n");
}

std::string zsh_argument(const CLI::Option& o, const std::string& spelling) {
  const std::string text = replaced(replaced(o.get_description(), "[", "("), "]", ")");
  std::string out = Cat(spelling, "[", replaced(text, ":", "\\:"), "]");
  if (!takes_value(o)) return out;
  const auto words = choices(o);
  out += Cat(":", replaced(o.get_type_name(), ":", " "), ":");
  return out + (!words.empty()    ? Cat("(", joined(words, " "), ")")
                : takes_file(o)   ? std::string("_files")
                : takes_folder(o) ? std::string("_files -/")
                                  : std::string());
}

std::string zsh_script(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* c : commands_of(app)) {
    commands += Cat("    '", c->get_name(), ":", quoted(c->get_description()), "'\n");
    cases += Cat("    ", c->get_name(), ") _arguments");
    for (const CLI::Option* o : flags_of(*c))
      for (const std::string& s : spellings(*o)) cases += Cat(" \\\n      '*", quoted(zsh_argument(*o, s)), "'");
    cases += " \\\n      '*:file:_files' ;;\n";
  }
  return Cat(
      "#compdef smelt\n# Zsh completion of smelt, written by `smelt completion zsh`.\n_smelt() {\n  local -a "
      "commands=(\n",
      commands,
      "  )\n  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
      "  local command=$words[2]\n  shift words; (( CURRENT-- ))\n  case $command in\n",
      cases, "  esac\n}\n_smelt \"$@\"\n");
}

std::string fish_script(const CLI::App& app) {
  std::string out = "# Fish completion of smelt, written by `smelt completion fish`.\n";
  for (const CLI::App* c : commands_of(app)) {
    out += Cat("complete -c smelt -n __fish_use_subcommand -f -a ", c->get_name(), " -d '",
               quoted(c->get_description()), "'\n");
    for (const CLI::Option* o : flags_of(*c)) {
      out += Cat("complete -c smelt -n '__fish_seen_subcommand_from ", c->get_name(), "'");
      for (const std::string& s : o->get_snames()) out += Cat(" -s ", s);
      for (const std::string& l : o->get_lnames()) out += Cat(" -l ", l);
      const auto words = choices(*o);
      if (!words.empty())
        out += Cat(" -x -a '", joined(words, " "), "'");
      else if (takes_value(*o))
        out += takes_file(*o) || takes_folder(*o) ? " -r" : " -x";
      out += Cat(" -d '", quoted(o->get_description()), "'\n");
    }
  }
  return out;
}

/// Text of a manual page: no line is a request, no character an escape.
std::string roff(const std::string& text) {
  std::string out = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  if (out.starts_with('.') || out.starts_with('\'')) out = "\\&" + out;
  return replaced(replaced(std::move(out), "\n.", "\n\\&."), "\n'", "\n\\&'");
}

std::string man_page(const CLI::App& app) {
  std::string out = Cat(".TH SMELT 1 \"\" \"smelt ", SMELT_VERSION_STRING,
                        "\"\n.SH NAME\nsmelt \\- run, check, inspect and measure on\\-device neural\\-network models\n"
                        ".SH SYNOPSIS\n.B smelt\n.I COMMAND\n[\\fIOPTION\\fR]... [\\fIFILE\\fR]...\n.SH DESCRIPTION\n",
                        roff(app.get_description()), "\n.SH COMMANDS\n");
  for (const CLI::App* c : commands_of(app)) {
    out += Cat(".SS smelt ", c->get_name(), "\n", roff(c->get_description()), ".\n");
    for (const CLI::Option* o : c->get_options({})) {
      const std::string name = o->nonpositional() ? joined(spellings(*o), ", ") : o->get_name(true);
      out +=
          Cat(".TP\n\\fB", roff(name), "\\fR",
              takes_value(*o) && o->nonpositional() ? Cat(" \\fI", roff(o->get_type_name()), "\\fR") : std::string(),
              "\n", roff(o->get_description()),
              o->get_default_str().empty() ? std::string() : roff(Cat(" (default ", o->get_default_str(), ")")), "\n");
    }
    if (!c->get_footer().empty()) out += Cat(".PP\n.nf\n", roff(c->get_footer()), "\n.fi\n");
  }
  return Cat(out, ".SH EXIT STATUS\n.nf\n", roff(app.get_footer()),
             "\n.fi\n"
             ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nIf set, messages have no colours.\n.TP\n.B SMELT_ISA\n"
             "Instruction set level of the CPU kernels: baseline, avx2, avx512, vnni, amx, bf16 and amx_bf16 (round to "
             "bfloat16), dot.\n.TP\n.B SMELT_CACHE_DIR\nFolder of compiled GPU pipelines and, if it is set, of packed "
             "weights, which later runs and other processes map instead of packing them again.\n");
}

}  // namespace

void add_completion(Command app, int& status) {
  auto shell = std::make_shared<std::string>();
  Command c = app.add_subcommand("completion", "Print the completion script of a shell");
  c.add_option("shell", *shell, "bash, zsh or fish")
      .required()
      .check(one_of({"bash", "zsh", "fish"}))
      .type_name("SHELL");
  c.footer(
      "Examples:\n"
      "  smelt completion bash > ~/.local/share/bash-completion/completions/smelt\n"
      "  smelt completion fish > ~/.config/fish/completions/smelt.fish");
  c.callback([app, shell, &status] {
    const CLI::App& all = *app.raw();
    put(*shell == "bash" ? bash_script(all) : *shell == "zsh" ? zsh_script(all) : fish_script(all));
    status = kDone;
  });
  Command man = app.add_subcommand("man", "Print the manual page");
  man.footer("Examples:\n  smelt man | man -l -");
  man.callback([app, &status] {
    put(man_page(*app.raw()));
    status = kDone;
  });
}

}  // namespace smelt::cli
