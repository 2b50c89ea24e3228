#include "real/cuda/vendor/library_search.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace plumbline::real::cuda {
namespace {

void add_matches(std::vector<std::string>& folders, const std::string& pattern) {
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    folders.insert(folders.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// NVIDIA's Python wheels put each library into nvidia/<package>/lib of the environment's packages.
void add_python_folders(std::vector<std::string>& folders) {
  std::vector<std::string> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string value = environment(name); !value.empty()) prefixes.push_back(value);
  if (const std::string value = environment("HOME"); !value.empty()) prefixes.push_back(value + "/.local");
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr", "/opt/*", "/opt"});
  for (const std::string& prefix : prefixes) {
    for (const char* packages : {"site-packages", "dist-packages"})
      add_matches(folders, prefix + "/lib/python3*/" + packages + "/nvidia/*/lib");
  }
}

std::string loaded_path(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr) return map->l_name;
  return fallback;
}

using Version = std::array<int, 3>;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? "" : resolved;
}

// Reads the three numbers at the end of libx.so.9.19.0; a name with fewer gives no version.
Version version_of_name(const std::string& path) {
  Version version{};
  const std::size_t so = path.rfind(".so.");
  if (so == std::string::npos) return {};
  const char* numbers = path.c_str() + so;
  return std::sscanf(numbers, ".so.%d.%d.%d", &version[0], &version[1], &version[2]) == 3 ? version : Version{};
}

Version version_of_header(const std::string& file, const std::string& prefix) {
  Version version{};
  std::ifstream text(file);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string define, name;
    int value = 0;
    if (!(words >> define >> name >> value) || define != "#define") continue;
    if (name == prefix + "_MAJOR") version[0] = value;
    if (name == prefix + "_MINOR") version[1] = value;
    if (name == prefix + "_PATCHLEVEL") version[2] = value;
  }
  return version;
}

// Returns the file in a folder, or in the loader's own path; "" if there is none. The loader gives its path only after
// it has loaded the file, which loads nothing else as long as no function is called.
std::string file_in(const std::string& folder, const std::string& soname) {
  if (!folder.empty()) return real_path(folder + '/' + soname);
  void* handle = dlopen(soname.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return "";
  link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr;
  const std::string path = known ? real_path(map->l_name) : "";
  dlclose(handle);
  return path;
}

}  // namespace

const std::vector<LibraryName>& known_libraries() {
  static const std::vector<LibraryName> libraries = {
      {"cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}},
      {"cuBLAS", {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}},
      {"cuDNN", {"libcudnn.so.9", "libcudnn.so"}},
      {"NCCL", {"libnccl.so.2", "libnccl.so"}},
      {"NVML", {"libnvidia-ml.so.1"}},
      {"CUPTI", {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}},
  };
  return libraries;
}

const LibraryName& known_library(const std::string& name) {
  static const LibraryName none;
  for (const LibraryName& library : known_libraries())
    if (library.name == name) return library;
  return none;
}

std::vector<std::string> library_folders(const std::vector<std::string>& given) {
  std::vector<std::string> folders = given;
  std::istringstream listed(environment("PLUMBLINE_LIBDIR"));
  for (std::string folder; std::getline(listed, folder, ':');)
    if (!folder.empty()) folders.push_back(folder);
  folders.emplace_back();
  add_matches(folders, "/usr/local/cuda*/lib64");
  add_matches(folders, "/usr/local/cuda*/targets/*-linux/lib");
  add_matches(folders, "/usr/local/cuda*/extras/CUPTI/lib64");
  add_python_folders(folders);
  return folders;
}

std::shared_ptr<Library> Library::open(const LibraryName& name, const std::vector<std::string>& folders,
                                       std::string& error) {
  std::string tried, damaged;
  for (const std::string& folder : folders) {
    for (const std::string& soname : name.sonames) {
      std::string path = folder;
      if (!folder.empty()) path += '/';
      path += soname;
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
        return std::shared_ptr<Library>(new Library(handle, loaded_path(handle, path)));
      const char* reason = dlerror();
      struct stat status {};
      // The error of an existing file that does not load is more useful than those of missing files.
      if (!folder.empty() && stat(path.c_str(), &status) == 0 && reason != nullptr) damaged = reason;
    }
    if (!tried.empty()) tried += ", ";
    tried += folder.empty() ? "the loader's path" : folder;
  }
  error = name.name + " (" + name.sonames.front() + ") was not found in " + tried;
  if (!damaged.empty()) error += "; it does not load: " + damaged;
  return nullptr;
}

void* Library::symbol(const char* name) const { return dlsym(handle_, name); }

Version adjacent_version(const std::string& path, const VersionHeader& header) {
  const Version named = version_of_name(real_path(path));
  return named != Version{} ? named : version_of_header(folder_of(path) + "/../include/" + header.file, header.prefix);
}

std::shared_ptr<Library> open_newest(const LibraryName& name, const VersionHeader& header,
                                     const std::vector<std::string>& folders, std::string& error) {
  Version newest{};
  std::vector<std::string> order = folders;  // without versions, the given order
  for (const std::string& folder : folders) {
    for (const std::string& soname : name.sonames) {
      const std::string path = file_in(folder, soname);
      if (path.empty()) continue;
      if (const Version version = adjacent_version(path, header); version > newest) {
        newest = version;
        order.insert(order.begin(), folder.empty() ? folder_of(path) : folder);
      }
    }
  }
  return Library::open(name, order, error);
}

}  // namespace plumbline::real::cuda
