#include "tests/golden/figures.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>

#include "tests/golden/transcript.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

void write_lines(const fs::path& path, const std::vector<std::string>& lines) {
  std::ofstream stream(path);
  for (const std::string& line : lines) stream << line << '\n';
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

// Runs each command once and gives its figures their texts. Returns the names of those that changed.
std::set<std::string> compute(std::map<std::string, Figure>& figures, const fs::path& root, const fs::path& binaries) {
  std::map<std::string, std::string> outputs;
  std::set<std::string> changed;
  for (auto& [name, figure] : figures) {
    if (!outputs.contains(figure.command)) {
      const TemporaryDirectory scratch;
      const CommandResult result = run_command(figure.command, root, binaries, scratch);
      if (result.exit_code != 0) throw std::runtime_error(figure.command + ":\n" + result.errors);
      outputs[figure.command] = result.output;
    }
    const std::string text = figure_text(figure, outputs[figure.command]);
    if (text != figure.text) changed.insert(name);
    figure.text = text;
  }
  return changed;
}

// Returns the lines of the file of figures with the present texts: each figure is on a line of its own.
std::vector<std::string> with_texts(std::vector<std::string> lines, const std::map<std::string, Figure>& figures) {
  static const std::regex entry("^([A-Za-z0-9_-]+) = .*text = \"([^\"]*)\"");
  for (std::string& line : lines) {
    std::smatch found;
    if (!std::regex_search(line, found, entry) || !figures.contains(found[1])) continue;
    line.replace(static_cast<std::size_t>(found.position(2)), static_cast<std::size_t>(found.length(2)),
                 figures.at(found[1]).text);
  }
  return lines;
}

struct PageState {
  std::set<std::string> used;
  std::vector<std::string> problems;
};

// Returns the page with the present texts of its figures; blocks of code are unchanged.
std::vector<std::string> with_figures(const SourceFile& page, const std::map<std::string, Figure>& figures,
                                      PageState& state) {
  std::vector<std::string> lines = page.lines;
  bool code = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("```")) code = !code;
    if (code) continue;
    std::vector<std::string> unknown;
    lines[i] = tests::with_figures(lines[i], figures, state.used, unknown);
    for (const std::string& name : unknown) state.problems.push_back(at(page, i, "no figure is called " + name));
  }
  return lines;
}

}  // namespace

std::map<std::string, Figure> parse_figures(const std::string& text) {
  std::map<std::string, Figure> figures;
  const toml::table commands = toml::parse(text);
  for (const auto& [command, entries] : commands) {
    if (!entries.is_table()) throw std::runtime_error(std::string(command.str()) + ": a table per command is needed");
    for (const auto& [name, node] : *entries.as_table()) {
      const auto key = [&node = node](const char* wanted) { return node.at_path(wanted).value_or(std::string()); };
      const Figure figure{
          std::string(command.str()),         std::string(name.str()), key("at"), key("as"), key("text"),
          node.at_path("scale").value_or(1.0)};
      if (figure.at.empty() || figure.format.empty()) throw std::runtime_error(figure.name + ": needs `at` and `as`");
      if (!figures.emplace(figure.name, figure).second) throw std::runtime_error(figure.name + " comes twice");
    }
  }
  return figures;
}

std::string figure_text(const Figure& figure, const std::string& output) {
  try {
    const auto value = nlohmann::json::parse(output).at(nlohmann::json::json_pointer(figure.at)).get<double>();
    return fmt::format(fmt::runtime(figure.format), value * figure.scale);
  } catch (const std::exception& failure) {
    throw std::runtime_error(figure.name + ", " + figure.at + " of " + figure.command + ": " + failure.what());
  }
}

std::string with_figures(const std::string& line, const std::map<std::string, Figure>& figures,
                         std::set<std::string>& used, std::vector<std::string>& unknown) {
  static const std::regex marked("<!--figure ([A-Za-z0-9_-]+)-->(.*?)<!--/-->");
  std::string text;
  std::size_t end = 0;
  for (std::sregex_iterator found(line.begin(), line.end(), marked); found != std::sregex_iterator(); ++found) {
    const std::string name = (*found)[1];
    const auto figure = figures.find(name);
    if (figure == figures.end()) unknown.push_back(name);
    used.insert(name);
    text += line.substr(end, static_cast<std::size_t>(found->position(2)) - end);
    text += figure == figures.end() ? (*found)[2].str() : figure->second.text;
    end = static_cast<std::size_t>(found->position(2) + found->length(2));
  }
  return text + line.substr(end);
}

std::vector<std::string> lines_without_transcript(const SourceFile& page, const fs::path& root) {
  static const std::regex marker("^<!--transcript ([^ ]+)-->$");
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    std::smatch found;
    if (!std::regex_search(page.lines[i], found, marker)) continue;
    const std::vector<std::string> transcript = read_lines(root / found[1].str());
    const std::set<std::string> known(transcript.begin(), transcript.end());
    if (i + 1 == page.lines.size() || !page.lines[i + 1].starts_with("```")) {
      problems.push_back(at(page, i, "no block of code follows"));
      continue;
    }
    for (i += 2; i < page.lines.size() && !page.lines[i].starts_with("```"); ++i) {
      const bool left_out = page.lines[i].find_first_not_of(" .") == std::string::npos;
      if (!left_out && !known.contains(page.lines[i]))
        problems.push_back(at(page, i, "is not in " + found[1].str() + ": " + page.lines[i]));
    }
  }
  return problems;
}

bool check_figures(const fs::path& file, const fs::path& root, const fs::path& binary_folder, bool update) {
  const std::vector<std::string> lines = read_lines(file);
  std::map<std::string, Figure> figures = parse_figures(joined(lines));
  PageState state;
  for (const std::string& name : compute(figures, root, binary_folder))
    state.problems.push_back(file.string() + ": " + name + " is now " + figures.at(name).text);
  if (update) {
    write_lines(file, with_texts(lines, figures));
    state.problems.clear();
  }
  for (const SourceFile& page : read_source_tree(root, {".md"})) {
    const std::vector<std::string> present = with_figures(page, figures, state);
    if (update && present != page.lines) write_lines(root / page.path, present);
    for (std::size_t i = 0; i < present.size() && !update; ++i)
      if (present[i] != page.lines[i]) state.problems.push_back(at(page, i, "the command now gives: " + present[i]));
    std::ranges::copy(lines_without_transcript(page, root), std::back_inserter(state.problems));
  }
  for (const auto& [name, figure] : figures)
    if (!state.used.contains(name)) state.problems.push_back(file.string() + ": no page has the figure " + name);
  for (const std::string& problem : state.problems) std::printf("%s\n", problem.c_str());
  if (!state.problems.empty()) std::printf("tests/golden/update rewrites figures that the command computes\n");
  return state.problems.empty();
}

}  // namespace plumbline::tests
