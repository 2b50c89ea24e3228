#include "reports/text/paragraph.h"

#include <fmt/format.h>

#include "reports/text/table.h"

namespace plumbline::reports {

std::string bold(std::string_view text, Style style) {
  return style.colour ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string heading(std::string_view text, Style style) { return fmt::format("\n{}\n", bold(text, style)); }

std::string paragraph(std::string_view text) { return wrapped(text, 2); }

std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  for (const std::string& line : wrap(text, terminal_width - indent)) out += std::string(indent, ' ') + line + '\n';
  return out;
}

}  // namespace plumbline::reports
