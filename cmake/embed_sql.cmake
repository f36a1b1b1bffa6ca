# cmake -D SQL_DIRECTORY=… -D HEADER=… -D SOURCE=… -P embed_sql.cmake
# Writes the C++ that holds the texts of sql/: a string_view per file of sql/query, a list per other folder.
cmake_minimum_required(VERSION 3.25)

set(chunk_bytes 8000) # compilers limit the length of one literal; adjacent ones are joined
set(header_queries "")
set(definitions "")

# `text` as adjacent raw literals, cut at line ends so that no character is torn apart.
function(literal_of text out)
  string(FIND "${text}" ")settle\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "a file of sql/ holds the end mark of the embedding: )settle\"")
  endif()
  set(result "")
  string(LENGTH "${text}" left)
  while(left GREATER chunk_bytes)
    string(SUBSTRING "${text}" 0 ${chunk_bytes} chunk)
    string(FIND "${chunk}" "\n" cut REVERSE)
    if(cut EQUAL -1)
      message(FATAL_ERROR "a file of sql/ has a line of more than ${chunk_bytes} bytes")
    endif()
    math(EXPR cut "${cut} + 1")
    string(SUBSTRING "${text}" 0 ${cut} chunk)
    string(SUBSTRING "${text}" ${cut} -1 text)
    string(APPEND result "R\"settle(${chunk})settle\"\n")
    string(LENGTH "${text}" left)
  endwhile()
  string(APPEND result "R\"settle(${text})settle\"")
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

file(GLOB query_files ${SQL_DIRECTORY}/query/*.sql)
list(SORT query_files)
foreach(path IN LISTS query_files)
  get_filename_component(name ${path} NAME_WE)
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "${path}: the name becomes a C++ name: lower case letters, digits and _")
  endif()
  file(READ ${path} text)
  literal_of("${text}" literal)
  string(APPEND header_queries "extern const std::string_view ${name};\n")
  string(APPEND definitions "const std::string_view ${name} =\n${literal};\n\n")
endforeach()

foreach(folder schema api lab)
  file(GLOB paths ${SQL_DIRECTORY}/${folder}/*.sql)
  list(SORT paths)
  list(LENGTH paths count)
  set(entries "")
  foreach(path IN LISTS paths)
    get_filename_component(name ${path} NAME)
    file(READ ${path} text)
    file(SHA256 ${path} sha256)
    literal_of("${text}" literal)
    string(APPEND entries "    SqlFile{\"${name}\", \"${sha256}\",\n${literal}},\n")
  endforeach()
  string(APPEND definitions
    "static constexpr std::array<SqlFile, ${count}> ${folder}_list{\n${entries}};\n"
    "const std::span<const SqlFile> ${folder}_files{${folder}_list};\n\n")
endforeach()

set(header_text "// Made from sql/ by cmake/embed_sql.cmake.
#pragma once

#include <span>
#include <string_view>

namespace settle::store::sql {

struct SqlFile {
    std::string_view name;    // without its folder: \"0001_tables.sql\"
    std::string_view sha256;  // of the file, in hexadecimal
    std::string_view text;
};

// In file-name order.
extern const std::span<const SqlFile> schema_files;
extern const std::span<const SqlFile> api_files;
extern const std::span<const SqlFile> lab_files;

// One per file of sql/query.
${header_queries}
}  // namespace settle::store::sql
")
set(source_text "// Made from sql/ by cmake/embed_sql.cmake.
#include \"store/sql_text.hpp\"

#include <array>

namespace settle::store::sql {

${definitions}}  // namespace settle::store::sql
")

# The header changes only when a query comes or goes, so an edited text recompiles one file.
function(write_if_different path text)
  if(EXISTS ${path})
    file(READ ${path} old)
    if(old STREQUAL text)
      return()
    endif()
  endif()
  file(WRITE ${path} "${text}")
endfunction()
write_if_different(${HEADER} "${header_text}")
write_if_different(${SOURCE} "${source_text}")
