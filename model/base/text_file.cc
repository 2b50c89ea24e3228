#include "model/base/text_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace plumbline::model {
Result<std::string> read_text_file(const std::string& path) {
  std::error_code status_error;
  const auto status = std::filesystem::status(path, status_error);
  if (!std::filesystem::exists(status)) return wrong_input_at(path, 0, "", "no such file", "check the path");
  // A stream opens a folder without an error and then reads nothing from it.
  if (std::filesystem::is_directory(status))
    return wrong_input_at(path, 0, "", "is a folder, not a file", "name a file in it");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return wrong_input_at(path, 0, "", "cannot open the file", std::strerror(errno));
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) return wrong_input_at(path, 0, "", "cannot read the file");
  return text;
}

std::vector<std::string> names_in_folder(const std::string& folder, std::string_view extension) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().extension() == extension) names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

int line_of_offset(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  return 1 + static_cast<int>(std::ranges::count(before, '\n'));
}

}  // namespace plumbline::model
