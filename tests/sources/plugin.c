/* A library that needs names of the program that opens it. */
extern int program_variable;
int program_function(int argument);

int plugin_run(void)
{
    program_variable += 1;
    return program_function(program_variable);
}
