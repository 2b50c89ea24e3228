#include <algorithm>
#include <cstddef>
#include <string>

#include "calibrate/import/printed_files.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

// Removes the control sequences of terminals: escape, bracket, parameters, and a final letter.
void remove_colors(std::string& line) {
  for (std::size_t begin = 0; (begin = line.find("\x1b[", begin)) != std::string::npos;) {
    const std::size_t end = line.find_first_not_of("0123456789;:<=>? !\"#$%&'()*+,-./", begin + 2);
    line.erase(begin, end == std::string::npos ? end : end + 1 - begin);
  }
}

// Removes the beginning where it has this form, in which '0' is any digit.
bool remove_form(std::string_view& line, std::string_view form) {
  if (line.size() < form.size()) return false;
  const bool has = std::ranges::equal(line.substr(0, form.size()), form, [](char c, char wanted) {
    return wanted == '0' ? model::is_digit(c) : c == wanted;
  });
  if (has) line.remove_prefix(form.size());
  return has;
}

// Removes "Sat Jan 31 12:00:00 2026".
bool remove_calendar_time(std::string_view& line) {
  constexpr std::string_view days = "Sun Mon Tue Wed Thu Fri Sat ";
  std::string_view rest = line;
  if (rest.size() < 4 || rest[3] != ' ' || days.find(rest.substr(0, 4)) == std::string_view::npos) return false;
  rest.remove_prefix(std::min<std::size_t>(rest.size(), 8));  // the month, too
  if (!remove_form(rest, "00 00:00:00 0000") && !remove_form(rest, " 0 00:00:00 0000")) return false;
  line = rest;
  return true;
}

// Removes "2026-01-31 12:00:00,123 - root - INFO - ", "2026-01-31T12:00:00.123456789Z " or "12:00:00 ".
bool remove_time(std::string_view& line) {
  if (remove_calendar_time(line)) return true;
  const bool date = remove_form(line, "0000-00-00");
  if (date) line.remove_prefix(std::min(line.find_first_not_of("T "), line.size()));
  if (!remove_form(line, "00:00:00")) return date;
  if (line.starts_with(',') || line.starts_with('.'))
    line.remove_prefix(std::min(line.find_first_not_of("0123456789", 1), line.size()));
  line.remove_prefix(line.starts_with('Z') ? 1 : 0);
  return true;
}

// Removes "[1,0]<stdout>:", "<stdout>:", "[INFO] " or "(Worker pid=7) ".
bool remove_brackets(std::string_view& line) {
  const std::size_t before = line.size();
  if (line.starts_with('[') || line.starts_with('(')) {
    const std::size_t end = line.find(line.front() == '[' ? "]" : ")");
    if (end == std::string_view::npos ||
        (line.front() == '(' && line.substr(0, end).find("pid=") == std::string_view::npos))
      return false;
    line.remove_prefix(end + 1);
  }
  for (const std::string_view stream : {"<stdout>", "<stderr>"})
    if (line.starts_with(stream)) line.remove_prefix(stream.size());
  if (line.size() == before) return false;
  line.remove_prefix(line.starts_with(':') ? 1 : 0);
  return true;
}

// Removes "3: ", "node-1: ", "worker-0  | " or "- root - INFO - ".
bool remove_name(std::string_view& line) {
  for (const std::string_view level : {" - INFO - ", " - WARNING - "})
    if (const std::size_t at = line.find(level); line.starts_with("- ") && at != std::string_view::npos) {
      line.remove_prefix(at + level.size());
      return true;
    }
  const std::size_t end = line.find_first_of(": \t");
  if (end == std::string_view::npos) return false;
  if (const std::size_t bar = line.find_first_not_of(' ', end);
      bar != std::string_view::npos && line[bar] == '|' && std::ranges::any_of(line.substr(0, end), model::is_digit)) {
    line.remove_prefix(bar + 1);
    return true;
  }
  if (line[end] != ':' || end + 1 == line.size()) return false;
  const bool of_name = std::ranges::any_of(line.substr(0, end), model::is_digit) &&
                       std::string_view(" \t#").find(line[end + 1]) != std::string_view::npos;
  if (of_name) line.remove_prefix(end + 1);
  return of_name;
}

std::string_view undecorated(std::string_view line) {
  while (true) {
    line = model::trimmed(line);
    if (!remove_time(line) && !remove_brackets(line) && !remove_name(line)) return line;
  }
}

}  // namespace

void visit_printed_lines(std::string_view text,
                         const std::function<void(std::string_view line, int number, bool ended)>& visit) {
  std::string plain;
  int number = 0;
  for (const std::string_view line : model::lines_of(text)) {
    ++number;
    plain = line;
    remove_colors(plain);
    const bool ended = line.data() + line.size() < text.data() + text.size();
    for (const std::string_view part : model::split_at(plain, '\r')) visit(undecorated(part), number, ended);
  }
}

}  // namespace plumbline::calibrate
