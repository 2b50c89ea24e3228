#include "cli/manual/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/data.h"
#include "cli/manual/detail/completion.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/base/text.h"
#include "model/base/version.h"
#include "model/plan/plan_key_table.h"
#include "model/schedule/schedule.h"

namespace plumbline::cli {
namespace {

// Returns text with what roff would take as a command escaped.
std::string roff(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    const bool starts_line = out.empty() || out.back() == '\n';
    if (starts_line && (letter == '.' || letter == '\'')) out += "\\&";
    if (letter == '\\')
      out += "\\e";
    else if (letter == '-')
      out += "\\-";
    else
      out += letter;
  }
  return out;
}

std::string title(const std::string& name, int section) {
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return fmt::format(".TH {} {} \"\" \"plumbline {}\" \"plumbline\"\n", roff(upper), section, model::version);
}

std::string entry(const std::string& name, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(name), roff(text));
}

// Returns "-o, --output FILE".
std::string option_title(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  std::string names;
  for (const std::string& name : option.get_snames()) names += fmt::format("{}-{}", names.empty() ? "" : ", ", name);
  for (const std::string& name : option.get_lnames()) names += fmt::format("{}--{}", names.empty() ? "" : ", ", name);
  return option.get_expected_max() > 0 && option.get_type_size() > 0 ? names + " VALUE" : names;
}

std::string options_text(const CLI::App& app, bool positional) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() != positional) continue;
    std::string what = option->get_description();
    const auto values = listed_values(*option);
    if (!values.empty() && what.find(" | ") == std::string::npos)
      what += fmt::format(". One of {}", fmt::join(values, ", "));
    if (!option->get_default_str().empty()) what += fmt::format(" (default: {})", option->get_default_str());
    if (option->get_required()) what += " (required)";
    text += entry(option_title(*option), what);
  }
  if (text.empty()) return "";
  return fmt::format(".SH {}\n{}", positional ? "ARGUMENTS" : "OPTIONS", text);
}

std::string footer_text(const CLI::App& app) {
  std::string text;
  const std::string footer = app.get_footer();
  for (const std::string_view line : model::lines_of(footer)) {
    if (line.starts_with(' '))
      text += fmt::format(".nf\n{}\n.fi\n", roff(line));
    else if (line.ends_with(':'))
      text += fmt::format(".SH {}\n", roff(line.substr(0, line.size() - 1)));
    else
      text += roff(line) + "\n";
  }
  return text.empty() ? "" : fmt::format(".SH NOTES\n{}", text);
}

const std::string exit_status =
    ".SH EXIT STATUS\n" + entry("0", "Success.") + entry("1", "Wrong input.") + entry("2", "The plan is infeasible.") +
    entry("3", "A validation case is outside its tolerance.") + entry("77", "There is no GPU.") +
    entry("130, 143, 129", "It was ended by SIGINT, SIGTERM, SIGHUP.") +
    entry("141", "The program that reads its output has ended (SIGPIPE).");

std::string root_page(const CLI::App& root) {
  std::string text = title("plumbline", 1) + ".SH NAME\nplumbline \\- " + roff(root.get_description()) +
                     "\n.SH SYNOPSIS\n.B plumbline\nVERB [ARGUMENTS]\n.SH VERBS\n";
  std::string pages;
  for (const std::string& verb : verb_names(root)) {
    text += entry(verb, root.get_subcommand(verb)->get_description());
    pages += fmt::format(".BR plumbline\\-{} (1),\n", verb);
  }
  return text + options_text(root, false) + exit_status + ".SH ENVIRONMENT\n" +
         entry("PLUMBLINE_DATA", "Folder of the shipped plans, models, topologies, profiles and cases.") +
         entry("NO_COLOR", "No colors in output.") + ".SH SEE ALSO\n" + pages + ".BR plumbline\\-plan (5)\n";
}

std::string verb_page(const CLI::App& verb) {
  const std::string name = "plumbline-" + verb.get_name();
  std::string usage;
  for (const CLI::Option* option : verb.get_options())
    if (option->get_positional())
      usage += option->get_required() ? " " + option->get_name(true) : " [" + option->get_name(true) + "]";
  return title(name, 1) + ".SH NAME\n" + roff(name) + " \\- " + roff(verb.get_description()) +
         "\n.SH SYNOPSIS\n.B plumbline " + roff(verb.get_name()) + "\n" + roff("[OPTIONS]" + usage) + "\n" +
         options_text(verb, true) + options_text(verb, false) + footer_text(verb) + exit_status +
         ".SH SEE ALSO\n.BR plumbline (1),\n.BR plumbline\\-plan (5)\n";
}

std::string keys_page() {
  std::string text = title("plumbline-plan", 5) +
                     ".SH NAME\nplumbline\\-plan \\- keys of a plan, a TOML file\n.SH DESCRIPTION\n" +
                     roff(
                         "A plan states model, cluster and how to train or serve. Any key can be overridden on the "
                         "command line with --set KEY=VALUE. [model] also takes every key of the model's config.json. "
                         "plumbline show key NAME prints one key.") +
                     "\n";
  std::string section;
  for (const model::PlanKey& key : model::plan_key_table()) {
    const std::string own = key.alias ? "ALIASES" : key.name.substr(0, key.name.find('.'));
    if (own != section) text += fmt::format(".SH {}\n", roff(own));
    section = own;
    std::string what = key.meaning;
    if (!key.unit.empty()) what += fmt::format(" Unit: {}.", key.unit);
    if (!key.allowed.empty()) what += fmt::format(" Values: {}.", key.allowed);
    if (!key.default_value.empty()) what += fmt::format(" Default: {}.", key.default_value);
    text += entry(key.name, fmt::format("{} Since {}.", what, key.since));
  }
  return text + ".SH SEE ALSO\n.BR plumbline (1)\n";
}

struct ManualArguments {
  std::string subject, output = "-";
  std::vector<std::string> words;
};

model::Result<void> print_help(const CLI::App& root, const std::string& verb) {
  // help() of the command is that of the verb that was chosen, which is this one.
  if (verb.empty())
    return write_output("-", root.get_formatter()->make_help(&root, root.get_name(), CLI::AppFormatMode::Normal));
  return write_output("-", TRY(find_verb(root, verb))->help("plumbline"));
}

model::Result<void> print_completion(const CLI::App& root, const ManualArguments& arguments) {
  if (arguments.subject != "words") return write_output(arguments.output, TRY(completion_script(arguments.subject)));
  std::string text;
  for (const Candidate& candidate : completions(root, arguments.words))
    text += fmt::format("{}\t{}\n", candidate.word, candidate.what);
  return write_output("-", text);
}

// Prints a page, or writes all of them into a folder.
model::Result<void> print_man(const CLI::App& root, const ManualArguments& arguments) {
  const auto pages = man_pages(root);
  const std::string& subject = arguments.subject;
  if (arguments.output != "-") {
    for (const auto& [name, text] : pages) TRY(write_output_in(arguments.output, name, text));
    return {};
  }
  if (subject == "keys") return write_output("-", pages.at("plumbline-plan.5"));
  if (subject.empty()) return write_output("-", pages.at("plumbline.1"));
  TRY(find_verb(root, subject));
  return write_output("-", pages.at(fmt::format("plumbline-{}.1", subject)));
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// Returns the verb that was chosen, else the command itself.
const CLI::App& chosen(const CLI::App& root) {
  const auto verbs = root.get_subcommands();
  return verbs.empty() ? root : *verbs.front();
}

namespace fs = std::filesystem;
using Candidates = std::vector<Candidate>;

void append_words(Candidates& to, const std::vector<std::string>& words, std::string_view what) {
  for (const std::string& word : words) to.push_back({word, std::string(what)});
}

void append_shipped(Candidates& to, Shipped kind, std::string_view what) {
  if (const auto names = shipped_names(kind)) append_words(to, *names, what);
}

// Appends the files and folders whose path begins with `start`.
void append_files(Candidates& to, const std::string& start) {
  const std::size_t slash = start.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : start.substr(0, slash + 1);
  std::error_code failed;
  std::vector<std::string> paths;
  for (fs::directory_iterator file(folder.empty() ? "." : folder, failed), end; !failed && file != end;
       file.increment(failed)) {
    const std::string name = file->path().filename().string();
    if (name.starts_with('.') && start.size() == folder.size()) continue;
    std::error_code unreadable;
    paths.push_back(folder + name + (file->is_directory(unreadable) ? "/" : ""));
  }
  std::ranges::sort(paths);
  append_words(to, paths, "file");
}

// Appends the keys of a plan, or after KEY= the values that it takes.
void append_keys(Candidates& to, const std::string& start) {
  const std::size_t equals = start.find('=');
  const std::string name = start.substr(0, equals);
  for (const model::PlanKey& key : model::plan_key_table()) {
    if (key.name.find(".phase.") != std::string::npos) continue;
    if (equals == std::string::npos) to.push_back({key.name + "=", key.meaning});
    if (key.name != name) continue;
    for (const std::string& word : key.words) to.push_back({fmt::format("{}={}", name, word), key.meaning});
    constexpr std::array<std::pair<std::string_view, Shipped>, 5> shipped = {{{"cluster.topology", Shipped::topology},
                                                                              {"cluster.profile", Shipped::profile},
                                                                              {"stack.name", Shipped::stack},
                                                                              {"inference.engine", Shipped::stack},
                                                                              {"model.config", Shipped::model}}};
    for (const auto& [named, kind] : shipped) {
      if (named != name) continue;
      Candidates values;
      append_shipped(values, kind, key.meaning);
      for (const Candidate& value : values) to.push_back({fmt::format("{}={}", name, value.word), value.what});
    }
  }
}

// Appends the formats that the help of a verb lists below "Formats:".
void append_formats(Candidates& to, const CLI::App& verb) {
  const std::string footer = verb.get_footer();
  const std::size_t list = std::min(footer.find("Formats:\n"), footer.size());
  for (const std::string_view line : model::lines_of(std::string_view(footer).substr(list))) {
    if (line.empty()) return;
    const std::string_view entry = model::trimmed(line);
    const std::size_t end = std::min(entry.find(' '), entry.size());
    if (line.starts_with("  "))
      to.push_back({std::string(entry.substr(0, end)), std::string(model::trimmed(entry.substr(end)))});
  }
}

// Appends what the argument or option named `name` takes: KIND of `show` decides about its NAME.
void append_values(Candidates& to, const CLI::App& verb, const CLI::Option& option, const std::string& name,
                   const std::string& first, const std::string& start) {
  if (name == "set" || name == "over" || name == "solve") return append_keys(to, start);
  const bool of_show = verb.get_name() == "show" && name == "NAME";
  if (of_show && first == "key") {
    for (const model::PlanKey& key : model::plan_key_table()) to.push_back({key.name, key.meaning});
    return;
  }
  if (name == "FORMAT") return append_formats(to, verb);
  if (verb.get_name() == "schedule" && name == "KIND") {
    for (const model::ScheduleKind* kind : model::schedule_kinds()) to.push_back({std::string(kind->name()), ""});
    return;
  }
  if (const auto values = listed_values(option); !values.empty()) return append_words(to, values, "");
  const auto either = [&](std::string_view word) { return name.find(word) != std::string::npos; };
  if (either("PLAN") || (of_show && first == "routing")) append_shipped(to, Shipped::plan, "plan");
  if (either("CONFIG") || name == "model" || (of_show && first == "model")) append_shipped(to, Shipped::model, "model");
  if (name == "topology" || name == "cluster" || (of_show && first == "topology"))
    append_shipped(to, Shipped::topology, "topology");
  if (name == "profile" || (of_show && first == "profile")) append_shipped(to, Shipped::profile, "profile");
  if (of_show && first == "stack") append_shipped(to, Shipped::stack, "stack");
  if (of_show && first == "reliability") append_shipped(to, Shipped::reliability, "rates of failures");
  append_files(to, start);
}

std::string name_of(const CLI::Option& option) {
  return option.get_positional() ? option.get_name(true) : option.get_lnames().empty() ? "" : option.get_lnames()[0];
}

const CLI::Option* find_option(const CLI::App& verb, const std::string& word) {
  for (const CLI::Option* option : verb.get_options())
    if (word.starts_with('-') && option->check_name(word)) return option;
  return nullptr;
}

// Appends the options of a verb, and --wide of the command, which may follow the verb.
void append_options(Candidates& to, const CLI::App& verb) {
  const CLI::App* command = verb.get_parent();
  if (command != nullptr && command->get_option_no_throw("--wide") != nullptr)
    to.push_back({"--wide", command->get_option_no_throw("--wide")->get_description()});
  for (const CLI::Option* option : verb.get_options())
    if (option->nonpositional() && !option->get_lnames().empty())
      to.push_back({"--" + option->get_lnames()[0], option->get_description()});
}

// Completes the last word after a verb.
void append_after_verb(Candidates& to, const CLI::App& verb, const std::vector<std::string>& words) {
  const std::string& start = words.back();
  std::vector<std::string> arguments;  // those before the last word
  const CLI::Option* open = nullptr;   // the option whose value is the last word
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    const CLI::Option* option = open == nullptr ? find_option(verb, words[i]) : nullptr;
    if (open == nullptr && option == nullptr) arguments.push_back(words[i]);
    open = option != nullptr && option->get_type_size() > 0 && option->get_expected_max() > 0 ? option : nullptr;
  }
  const std::string first = arguments.empty() ? "" : arguments.front();
  if (open != nullptr) return append_values(to, verb, *open, name_of(*open), first, start);
  const std::size_t equals = start.find('=');
  if (start.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = find_option(verb, start.substr(0, equals));
    Candidates values;
    if (option != nullptr) append_values(values, verb, *option, name_of(*option), first, start.substr(equals + 1));
    for (const Candidate& value : values) to.push_back({start.substr(0, equals + 1) + value.word, value.what});
    return;
  }
  if (start.starts_with('-')) return append_options(to, verb);
  std::size_t before = arguments.size();
  const CLI::Option* argument = nullptr;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional()) continue;
    argument = option;
    if (before-- == 0 || option->get_expected_max() > 1) break;
  }
  if (argument != nullptr) append_values(to, verb, *argument, name_of(*argument), first, start);
}

}  // namespace

std::map<std::string, std::string> man_pages(const CLI::App& root) {
  std::map<std::string, std::string> pages = {{"plumbline.1", root_page(root)}, {"plumbline-plan.5", keys_page()}};
  for (const std::string& verb : verb_names(root))
    pages[fmt::format("plumbline-{}.1", verb)] = verb_page(*root.get_subcommand(verb));
  return pages;
}

model::Error parse_problem(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& app = chosen(root);
  const bool of_verb = &app != &root;
  for (const std::string& word : app.remaining()) {
    if (!word.starts_with('-') || word == "-") continue;
    const std::string name = word.substr(0, word.find('='));
    return model::wrong_input(of_verb ? app.get_name() : "", fmt::format("unknown option '{}'", name),
                              model::known_names(name, option_names(app)))
        .value();
  }
  if (!of_verb && !app.remaining().empty()) return find_verb(root, app.remaining().front()).error();
  if (const auto extra = app.remaining(); !extra.empty())
    return model::wrong_input(app.get_name(), fmt::format("'{}' is one argument too many", extra.front()),
                              fmt::format("plumbline {} --help lists them", app.get_name()))
        .value();
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> values = listed_values(*option);
    if (std::string_view(error.what()).starts_with(option->get_name() + ":") && !values.empty() &&
        !option->results().empty())
      return model::wrong_input(option->get_name(), fmt::format("unknown value '{}'", option->results().back()),
                                model::known_names(option->results().back(), values))
          .value();
  }
  for (const CLI::Option* option : app.get_options())
    if (error.get_name() == "ConversionError" && !option->results().empty() &&
        std::string_view(error.what()).find(option->get_name() + " = ") != std::string_view::npos)
      return model::wrong_input(option->get_name(),
                                fmt::format("'{}' is no {}", fmt::join(option->results(), ","),
                                            option->get_type_name().starts_with("FLOAT") ? "number" : "whole number"),
                                "digits without a unit: 1024")
          .value();
  const std::string help = of_verb ? fmt::format("see plumbline {} --help", app.get_name()) : "";
  for (const CLI::Option* option : app.get_options())
    if (error.what() == option->get_name() + " is required")
      return model::wrong_input("", error.what(), fmt::format("{}; {}", option->get_description(), help)).value();
  return model::wrong_input("", error.what(), help).value();
}

void add_manual(CLI::App& root, int& exit_code) {
  const auto arguments = std::make_shared<ManualArguments>();
  CLI::App* completion = root.add_subcommand("completion", "Print the script that completes words in a shell");
  completion->add_option("SHELL", arguments->subject, "bash | zsh | fish")->required();
  completion->add_option("WORDS", arguments->words, "Of the line to complete, for SHELL words")->group("");
  completion->add_option("-o,--output", arguments->output, "File for the script; - is stdout")->capture_default_str();
  completion->footer(
      "Examples:\n"
      "  source <(plumbline completion bash)\n"
      "  plumbline completion fish -o ~/.config/fish/completions/plumbline.fish");
  completion->callback([&root, &exit_code, arguments] { exit_code = exit_of(print_completion(root, *arguments)); });
  CLI::App* man = root.add_subcommand("man", "Print a man page of the command, a verb, or the keys of plans");
  man->add_option("PAGE", arguments->subject, "A verb, or keys; default: the command");
  man->add_option("-o,--output", arguments->output, "Folder for all pages")->type_name("FOLDER");
  man->footer(
      "Examples:\n"
      "  plumbline man simulate | man -l -\n"
      "  plumbline man keys | man -l -");
  man->callback([&root, &exit_code, arguments] { exit_code = exit_of(print_man(root, *arguments)); });
  CLI::App* help = root.add_subcommand("help", "Print the help of the command or of a verb");
  help->add_option("VERB", arguments->subject, "The verb; default: the command");
  help->callback([&root, &exit_code, arguments] { exit_code = exit_of(print_help(root, arguments->subject)); });
  CLI::App* version = root.add_subcommand("version", "Print what --version prints");
  version->callback([&root, &exit_code] { exit_code = exit_of(write_output("-", root.version() + "\n")); });
}

std::vector<std::string> verb_names(const CLI::App& root) {
  std::vector<std::string> names;
  for (const CLI::App* verb : root.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

model::Result<const CLI::App*> find_verb(const CLI::App& root, const std::string& name) {
  const std::vector<std::string> names = verb_names(root);
  if (std::ranges::find(names, name) != names.end()) return root.get_subcommand(name);
  return model::wrong_input("", fmt::format("unknown verb '{}'", name), model::known_names(name, names));
}

std::vector<std::string> listed_values(const CLI::Option& option) {
  const auto words_between = [](std::string_view text, std::string_view separator) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(separator, at), text.size());
      words.emplace_back(model::trimmed(text.substr(at, end - at)));
      at = end + separator.size();
    }
    return words;
  };
  const std::string type = option.get_type_name();
  if (const std::size_t open = type.find('{'); open != std::string::npos)
    return words_between(std::string_view(type).substr(open + 1, type.rfind('}') - open - 1), ",");
  // "With --collectives: all_reduce (default) | reduce_scatter" lists words and what stands around them.
  std::vector<std::string> values = words_between(option.get_description(), " | ");
  if (values.size() < 2) return {};
  values.front() = values.front().substr(values.front().rfind(": ") + 1);
  for (std::string& value : values) {
    value = std::string(model::trimmed(value));
    value.resize(std::min(value.size(), value.find_first_of(" ,;(")));
  }
  return values;
}

std::vector<Candidate> completions(const CLI::App& root, const std::vector<std::string>& words) {
  Candidates all;
  if (words.empty()) return all;
  const auto verb = find_verb(root, words.front());
  const bool names_verb = words.size() == 2 && (words.front() == "help" || words.front() == "man");
  if (words.size() == 1 || names_verb) {
    for (const std::string& name : verb_names(root))
      all.push_back({name, root.get_subcommand(name)->get_description()});
    if (names_verb && words.front() == "man") all.push_back({"keys", "Keys of a plan"});
    if (words.size() == 1) append_options(all, root);
  } else if (verb) {
    append_after_verb(all, **verb, words);
  }
  Candidates found;
  std::ranges::copy_if(all, std::back_inserter(found),
                       [&](const Candidate& candidate) { return candidate.word.starts_with(words.back()); });
  return found;
}

model::Result<std::string> completion_script(const std::string& shell) {
  // Bash splits words at = and replaces only what follows it.
  if (shell == "bash") return std::string(bash_completion);
  if (shell == "zsh") return std::string(zsh_completion);
  if (shell == "fish") return std::string(fish_completion);
  return model::wrong_input("SHELL", fmt::format("unknown shell '{}'", shell),
                            model::known_names(shell, {"bash", "zsh", "fish"}));
}

}  // namespace plumbline::cli
