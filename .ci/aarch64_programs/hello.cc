#include <iostream>
#include <stdexcept>
#include <map>
#include <string>
#include <vector>
#include <thread>
#include <mutex>
struct D { std::string n; D(std::string s):n(std::move(s)){ std::cout<<"make "<<n<<"\n";} ~D(){ std::cout<<"drop "<<n<<"\n"; } };
static D global("global");
thread_local int counter = 10;
static int f(int n){ D d("frame"+std::to_string(n)); if(n==0) throw std::runtime_error("deep"); return f(n-1)+1; }
int main(){
  std::map<std::string,int> m; for (auto s: {"b","a","c"}) m[s]=m.size();
  for (auto&[k,v]: m) std::cout<<k<<"="<<v<<std::endl;
  try { f(3); } catch (const std::exception& e) { std::cout<<"caught "<<e.what()<<std::endl; }
  int seen=0; std::thread t([&]{ counter++; seen=counter; }); t.join();
  std::cout<<"thread "<<seen<<" main "<<counter<<std::endl;
  try { std::vector<int>(3).at(7); } catch (std::out_of_range&e) { std::cout<<"range\n"; }
  return 3;
}
