#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
static __thread int tls_a = 5; __thread long tls_b;
struct hfa { double a,b,c,d; };
static struct hfa mk(struct hfa x, float f){ x.a += f; x.d = x.b*2; return x; }
static int cmp(const void*a,const void*b){ return *(int*)a-*(int*)b; }
int main(int argc, char **argv) {
  int v[6]={5,3,9,1,7,2}; qsort(v,6,sizeof(int),cmp);
  struct hfa h = mk((struct hfa){1,2,3,4}, 0.5f);
  tls_a += argc; tls_b = tls_a * 2;
  printf("hello %d %s %g %g %d %ld %.6f\n", v[0], argc>1?argv[1]:"-", h.a, h.d, tls_a, tls_b, sin(1.0));
  for (int i=0;i<6;i++) printf("%d ", v[i]); puts("");
  return 7;
}
