#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "cli/manual/manual.h"
#include "model/base/text.h"
#include "model/base/version.h"
#include "model/plan/plan_key_table.h"

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

}  // namespace

std::map<std::string, std::string> man_pages(const CLI::App& root) {
  std::map<std::string, std::string> pages = {{"plumbline.1", root_page(root)}, {"plumbline-plan.5", keys_page()}};
  for (const std::string& verb : verb_names(root))
    pages[fmt::format("plumbline-{}.1", verb)] = verb_page(*root.get_subcommand(verb));
  return pages;
}

}  // namespace plumbline::cli
