#include "cli/detail/help_format.h"

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "reports/text/table.h"

namespace plumbline::cli {

namespace {

constexpr std::size_t description_column = 30;  // CLI::Formatter's

// Wraps text to what is left of a line behind `indent`; later lines begin with that many blanks.
std::string hanging(std::string_view text, std::size_t indent, std::string_view continues = "") {
  std::string out;
  const auto lines = reports::wrap(text, reports::terminal_width - indent - continues.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += std::string(indent, ' ');
    out += lines[i];
    out += i + 1 < lines.size() ? continues : "";
    out += '\n';
  }
  return out;
}

std::string with_blanks_after_commas(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == ',') out += ' ';
  }
  return out;
}

std::string wrapped_line(const std::string& line) {
  if (reports::code_points(line) <= reports::terminal_width) return line + '\n';
  const std::size_t blanks = line.find_first_not_of(' ');
  const std::string indent(blanks, ' ');
  const std::string_view text = std::string_view(line).substr(blanks);
  constexpr std::size_t deeper = 4;
  if (text.starts_with("plumbline ")) return indent + hanging(text, blanks + deeper, " \\");
  const bool described =
      blanks <= description_column && line[description_column - 1] == ' ' && line[description_column] != ' ';
  if (described)
    return line.substr(0, description_column) +
           hanging(std::string_view(line).substr(description_column), description_column);
  if (text.starts_with("-")) return indent + hanging(with_blanks_after_commas(text), blanks + deeper);
  return indent + hanging(text, blanks);
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::istringstream help(CLI::Formatter::make_help(app, std::move(name), mode));
    std::string out;
    for (std::string line; std::getline(help, line);) out += wrapped_line(line);
    return out;
  }
};

}  // namespace

std::shared_ptr<CLI::Formatter> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace plumbline::cli
