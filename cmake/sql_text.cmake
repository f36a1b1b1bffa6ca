# Compiles the files of sql/ into the program: target settle_sql, header "store/sql_text.hpp" in the build tree.
# The text is written anew when a file changes, and when one is added or removed.
file(GLOB SETTLE_SQL_FILES CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/sql/schema/*.sql ${PROJECT_SOURCE_DIR}/sql/api/*.sql
  ${PROJECT_SOURCE_DIR}/sql/lab/*.sql ${PROJECT_SOURCE_DIR}/sql/query/*.sql)

set(SETTLE_SQL_HEADER ${PROJECT_BINARY_DIR}/generated/store/sql_text.hpp)
set(SETTLE_SQL_SOURCE ${PROJECT_BINARY_DIR}/generated/store/sql_text.cpp)
# A removed file is no dependency any more; the list itself is one, so that its removal is seen.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/sql_files.txt CONTENT "${SETTLE_SQL_FILES}\n")

add_custom_command(
  OUTPUT ${SETTLE_SQL_HEADER} ${SETTLE_SQL_SOURCE}
  COMMAND ${CMAKE_COMMAND} -D SQL_DIRECTORY=${PROJECT_SOURCE_DIR}/sql -D HEADER=${SETTLE_SQL_HEADER}
          -D SOURCE=${SETTLE_SQL_SOURCE} -P ${PROJECT_SOURCE_DIR}/cmake/embed_sql.cmake
  DEPENDS ${SETTLE_SQL_FILES} ${PROJECT_BINARY_DIR}/generated/sql_files.txt
          ${PROJECT_SOURCE_DIR}/cmake/embed_sql.cmake
  COMMENT "Embedding SQL"
  VERBATIM)

add_library(settle_sql STATIC ${SETTLE_SQL_SOURCE} ${SETTLE_SQL_HEADER})
target_include_directories(settle_sql PUBLIC ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(settle_sql PUBLIC settle_options)
