// Finds and opens shared libraries at run time in the loader's path, the toolkit's folders, or the wheels of a Python
// environment.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace plumbline::real::cuda {

struct LibraryName {
  std::string name;                  // for display, such as cuBLASLt
  std::vector<std::string> sonames;  // newest first
};
// cuBLASLt, cuDNN, NCCL, NVML and CUPTI.
const std::vector<LibraryName>& known_libraries();
const LibraryName& known_library(const std::string& name);

// The folders to search, in order; an empty string is the loader's own path. `given` (the command line) come first,
// then PLUMBLINE_LIBDIR (separated by ':'), the loader, the toolkit and Python environments.
std::vector<std::string> library_folders(const std::vector<std::string>& given);

// The library's header whose macros <prefix>_MAJOR, _MINOR and _PATCHLEVEL are its version.
struct VersionHeader {
  std::string file, prefix;
};
// Returns the version of a library file, such as 9.19.0, without loading it: from its real name (libx.so.9.19.0), else
// from that header in ../include. {0, 0, 0} if neither has it.
std::array<int, 3> adjacent_version(const std::string& path, const VersionHeader& header);

class Library {
 public:
  // Opens the first of the library's names in the first folder that has it. Returns nullptr if none has; `error` lists
  // what was tried.
  static std::shared_ptr<Library> open(const LibraryName& name, const std::vector<std::string>& folders,
                                       std::string& error);
  // The library stays loaded: CUDA libraries must not be closed while a device context lives.
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void* symbol(const char* name) const;
  // Sets `function` to the symbol of that name; false if the library lacks it.
  template <typename Function>
  bool load(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
    return function != nullptr;
  }
  // Sets `function` likewise, and `error` if the symbol is missing.
  template <typename Function>
  void load(Function*& function, const char* name, std::string& error) const {
    if (!load(function, name)) error = path_ + " has no " + name;
  }
  // The file from which it was loaded.
  const std::string& path() const { return path_; }

 private:
  Library(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

// Declares a member for each function in use, from a list FUNCTIONS(DO) that calls DO(member, name).
#define PLUMBLINE_FUNCTION_MEMBER(member, name) decltype(&::name) member = nullptr;

// Opens the newest of the libraries in all folders; among equal versions, the first. Versions are read without loading:
// other copies would load parts that the chosen one would then use.
std::shared_ptr<Library> open_newest(const LibraryName& name, const VersionHeader& header,
                                     const std::vector<std::string>& folders, std::string& error);

}  // namespace plumbline::real::cuda
