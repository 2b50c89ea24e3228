// Reads all files of a folder, so that two folders can be compared.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "model/base/text_file.h"

namespace plumbline::tests {

// Returns the contents by file name.
inline std::map<std::string, std::string> folder_contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename().string()] = model::read_file(entry.path().string()).value();
  return files;
}

}  // namespace plumbline::tests
