// Reads the repository as text, for tests of rules that no compiler checks.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace plumbline::tests {

struct SourceFile {
  std::string path;  // relative to the root, with forward slashes
  std::vector<std::string> lines;

  std::string folder() const { return path.substr(0, path.find('/')); }  // of a file at the root: its whole name
  std::string extension() const { return std::filesystem::path(path).extension().string(); }
};

inline std::vector<std::string> read_lines(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns all files under `root` with one of the extensions ("" stands for files without one), ordered by path. Hidden
// folders, build trees (folders with a CMakeCache.txt, and build/ at the root) and packages of Node are left out.
inline std::vector<SourceFile> read_source_tree(const std::filesystem::path& root,
                                                const std::set<std::string>& extensions) {
  namespace fs = std::filesystem;
  std::vector<SourceFile> files;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator(); ++entry) {
    const fs::path& path = entry->path();
    if (entry->is_directory()) {
      const bool build_tree = fs::exists(path / "CMakeCache.txt") || path == root / "build";
      const bool packages = path.filename() == "node_modules";
      if (build_tree || packages || path.filename().string().starts_with('.')) entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && path.filename() != ".git" &&
               extensions.contains(path.extension().string())) {
      files.push_back({fs::relative(path, root).generic_string(), read_lines(path)});
    }
  }
  std::sort(files.begin(), files.end(), [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

// Returns "path:line: what", the form that editors follow.
inline std::string at(const SourceFile& file, std::size_t line_index, const std::string& what) {
  return file.path + ":" + std::to_string(line_index + 1) + ": " + what;
}

}  // namespace plumbline::tests
