# The page of `stalloc report`, which becomes a part of the command: stalloc_report_assets(<target>).
#
# D3 draws it (BSD 3-Clause; the license goes into every report and into share/doc/stalloc). It is looked for where
# Debian's node-d3 has it and where tools/setup puts it. Without it everything else is built, and `stalloc report` says
# what is missing.
find_file(STALLOC_D3 d3.min.js
  PATHS ${PROJECT_SOURCE_DIR}/build/d3/usr/share/nodejs/d3/dist /usr/share/nodejs/d3/dist NO_DEFAULT_PATH)
if(STALLOC_D3)
  string(REGEX REPLACE "/share/nodejs/d3/dist/d3.min.js$" "/share/doc/node-d3/copyright" d3_license ${STALLOC_D3})
  set(stalloc_d3_license ${d3_license} CACHE INTERNAL "For Install.cmake too")
else()
  message(WARNING "No D3: `stalloc report` will not work. tools/setup gets it.")
endif()

function(stalloc_report_assets target)
  set(folder ${PROJECT_SOURCE_DIR}/tools/report)
  set(built ${CMAKE_CURRENT_BINARY_DIR}/report)
  set(scripts common.js curves.js flame.js iterations.js map.js main.js)
  list(TRANSFORM scripts PREPEND ${folder}/)
  set(report_frame ${folder}/page.html)
  set(report_style ${folder}/style.css)
  set(report_scripts ${built}/scripts.js)
  add_custom_command(OUTPUT ${report_scripts} COMMAND cat ${scripts} > ${report_scripts} DEPENDS ${scripts} VERBATIM)
  file(WRITE ${built}/empty "")
  set(report_library ${built}/empty)
  set(report_license ${built}/empty)
  if(STALLOC_D3)
    set(report_library ${STALLOC_D3})
    if(EXISTS ${stalloc_d3_license})
      set(report_license ${stalloc_d3_license})
    endif()
  endif()
  configure_file(${folder}/assets.cpp.in ${built}/assets.cpp @ONLY)
  set_source_files_properties(${built}/assets.cpp PROPERTIES OBJECT_DEPENDS
    "${report_frame};${report_style};${report_scripts};${report_library};${report_license}")
  target_sources(${target} PRIVATE ${built}/assets.cpp)
endfunction()
