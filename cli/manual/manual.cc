#include "cli/manual/manual.h"

#include <fmt/format.h>

#include <memory>
#include <string_view>

#include "cli/outputs.h"
#include "cli/verb.h"

namespace plumbline::cli {
namespace {

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

}  // namespace

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

}  // namespace plumbline::cli
