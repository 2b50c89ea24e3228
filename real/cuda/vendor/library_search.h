// Finding and opening shared libraries at run time, wherever a system keeps them: the loader's own path, the
// toolkit's folders, or the wheels of a Python environment.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace plumbline::real::cuda {

struct LibraryName {
  std::string name;                  // for people: cuBLASLt
  std::vector<std::string> sonames;  // newest first
};
// cuBLASLt, cuDNN, NCCL, NVML, CUPTI.
const std::vector<LibraryName>& known_libraries();
const LibraryName& known_library(const std::string& name);

// The folders to look into, in order; an empty string stands for the loader's own path. `given` are those of the
// command line; then PLUMBLINE_LIBDIR (separated by ':'), the loader, the toolkit, Python environments.
std::vector<std::string> library_folders(const std::vector<std::string>& given);

// The header beside a library whose macros <prefix>_MAJOR, _MINOR and _PATCHLEVEL say its version.
struct VersionHeader {
  std::string file, prefix;
};
// 9.19.0 of a library file: from its real name (libx.so.9.19.0), else from that header in ../include. Nothing is
// loaded; {0, 0, 0}: neither tells.
std::array<int, 3> adjacent_version(const std::string& path, const VersionHeader& header);

class Library {
 public:
  // Opens the first of the library's names in the first folder that has it. nullptr: `error` lists what was tried.
  static std::shared_ptr<Library> open(const LibraryName& name, const std::vector<std::string>& folders,
                                       std::string& error);
  // The library stays loaded: CUDA libraries do not survive being closed while a device context lives.
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void* symbol(const char* name) const;
  // Sets `function` to the symbol of that name; false when the library lacks it.
  template <typename Function>
  bool load(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
    return function != nullptr;
  }
  // The same; a missing one is told in `error`.
  template <typename Function>
  void load(Function*& function, const char* name, std::string& error) const {
    if (!load(function, name)) error = path_ + " has no " + name;
  }
  // The file it was loaded from.
  const std::string& path() const { return path_; }

 private:
  Library(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

// For a list FUNCTIONS(DO) that calls DO(member, name) for each function in use: a member that holds it.
#define PLUMBLINE_FUNCTION_MEMBER(member, name) decltype(&::name) member = nullptr;

// Of all folders that have the library, the newest one's; where versions are equal, the first. Others are not asked
// themselves: they would load parts that the chosen one then took for its own.
std::shared_ptr<Library> open_newest(const LibraryName& name, const VersionHeader& header,
                                     const std::vector<std::string>& folders, std::string& error);

}  // namespace plumbline::real::cuda
